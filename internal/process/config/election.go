package config

// validateElection has kube-apiserver's rules: a lease outlasts the attempts to renew it.
func (c *Config) validateElection(bad reporter) {
	if c.CoordinatedLease <= c.CoordinatedRenew {
		bad("coordinated-leadership-lease-duration", "must be greater than --coordinated-leadership-renew-deadline")
	}
	if c.CoordinatedRenew <= c.CoordinatedRetry {
		bad("coordinated-leadership-renew-deadline", "must be greater than --coordinated-leadership-retry-period")
	}
	if c.CoordinatedRetry <= 0 {
		bad("coordinated-leadership-retry-period", "must be greater than zero")
	}
}
