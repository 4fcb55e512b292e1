"""The predictor of `loopmt plan`: rows of recorded runs, its fit, and how well it predicts runs that it has not seen."""
