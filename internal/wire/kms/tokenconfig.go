package kms

// TokenConfig says which keys of which PKCS#11 token to use.
type TokenConfig struct {
	// Module is the library of the token's maker, Label the token's name, PIN the user's.
	Module, Label, PIN string
	// Prefix is what the labels of the keys begin with; an ID and the time of its making follow.
	Prefix string
}
