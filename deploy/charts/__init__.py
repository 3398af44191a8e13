"""`python -m deploy.charts` writes the charts' schemas, the tables of docs/helm.md, and the golden renders.

What a value is, is said once, in the comment above it in the base chart's values.yaml:

    # -- (int >= 1) Gateways.
    replicas: 2
"""
