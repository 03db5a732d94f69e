"""What the scheduler shows of itself: metrics, logs, health. Nothing here changes a decision."""
