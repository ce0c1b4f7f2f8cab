"""What the doctor found, written for a person, a spreadsheet, a browser or a CI system."""
