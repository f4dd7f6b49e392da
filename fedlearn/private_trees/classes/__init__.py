"""Private classification: counts over categorical features with missing values, trees and forests."""
