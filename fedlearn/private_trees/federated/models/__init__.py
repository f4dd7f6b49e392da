"""The models of the table that are made of private trees and sums."""
