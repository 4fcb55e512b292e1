"""What joins the rooms: prepare and train, translate, evaluate, the demo."""
