"""Images, sounds, texts and values, as they are shown."""
