"""Whether loops will help: round trips, analysis, forecasts, and the choice of loops."""
