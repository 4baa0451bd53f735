"""What commands print for people: tables and pages made from the answers of the API."""
