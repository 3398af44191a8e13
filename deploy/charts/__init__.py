"""`python -m deploy.charts` writes what is generated: the charts' schemas, tables of docs/helm.md, golden renders.

What a value is, is said once, in the comment above it in the base chart's values.yaml:

    # -- (int >= 1) Gateways.
    replicas: 2
"""
