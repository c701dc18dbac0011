"""One module per resource: translate, delegate, translate back."""
