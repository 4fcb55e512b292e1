"""Joins the packages: prepare, train, evaluate, plan, translate, serve, the demo."""
