"""Skills: folders of knowledge that an agent reads when it needs them."""
