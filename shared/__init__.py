"""The code that the app's triggers, activities and orchestrations use."""
