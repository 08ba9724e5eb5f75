"""The documentation site: what `mkdocs.yml` cannot say. `make site` builds it, tests/test_site.py looks at it."""
