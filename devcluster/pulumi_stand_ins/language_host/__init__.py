"""A stand-in for `pulumi-language-python`: runs Python programs for the Pulumi engine."""
