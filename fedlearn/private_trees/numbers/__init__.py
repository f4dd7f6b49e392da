"""Private regression: histograms of a bounded target, greedy and random levels, leaves, forests and relays."""
