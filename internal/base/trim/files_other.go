//go:build !linux

package trim

// program is the file that this process runs.
type program struct{}

// unmap does nothing: other systems have no way to ask for it that is free of risk.
func (*program) unmap() {}

func (*program) close() {}
