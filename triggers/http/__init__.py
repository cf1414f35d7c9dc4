"""What every HTTP trigger shares: registration, responses, problems, parameters, pages."""
