"""One question asked of any trained model: what is the loss when these features are masked."""
