"""A function that several functions of the app may share."""


def greet(name):
    return f"Hello, {name}. This HTTP triggered function executed successfully."
