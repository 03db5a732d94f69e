"""What the scheduler shows of itself: metrics, health, and the HTTPS server for both.

Nothing here changes a decision, and nothing here knows the engine: it sets values and is asked for health. May import
nothing else of the scheduler.
"""
