// Package encryption judges internal/process/encryption by kube-apiserver's own code: each reads what the other has encrypted,
// and both refuse the same configurations in the same words.
package encryption
