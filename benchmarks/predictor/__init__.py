"""The predictor of `loopmt plan`: rows of recorded runs, its fit, and its errors on runs that it has not seen."""
