//go:build !linux

package trim

// unmapFiles does nothing: other systems have no way to ask for it that is free of risk.
func unmapFiles() {}
