//go:build !linux

package trim

// unmapProgram does nothing: other systems have no way to ask for it that is free of risk.
func unmapProgram() {}
