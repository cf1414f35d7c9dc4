"""What several functions need."""


def greet(name):
    return f"Hello, {name}. This HTTP triggered function executed successfully."
