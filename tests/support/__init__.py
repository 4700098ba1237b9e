"""What the tests share: database servers, waiting with a limit, time budgets."""
