"""Which trials a run consists of: claims, scenarios, controls, protocols and clients."""
