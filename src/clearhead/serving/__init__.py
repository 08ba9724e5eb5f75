"""``clearhead serve``: models behind a page and an API.

The front process speaks HTTP and never imports torch; worker processes of one thread each hold the models and answer.
``Room`` stands between the two.
"""
