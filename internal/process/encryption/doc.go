// Package encryption encrypts what is stored in etcd, as an EncryptionConfiguration says: the providers identity,
// aescbc, aesgcm, secretbox and kms (v2), for resources and wildcards of resources. Stored bytes are kube-apiserver's:
// either server reads what the other has written with the same configuration.
//
// A stored value is
//
//	k8s:enc:<provider>:v1:<name of the key>:<ciphertext>
//	k8s:enc:kms:v2:<name of the provider>:<EncryptedObject, in protobuf>
//
// and a value without encryption has no such prefix. The first provider of a resource writes; all read. A value that
// another than the first one has written is stale: the next write of its object stores it anew, even if the object
// stays the same.
//
// The ciphertexts of aesgcm and kms are bound to the key in etcd, so that a value that was changed or moved to another key
// is not read. secretbox detects changes, but not moves; aescbc detects neither.
//
// The kms provider asks a plugin, over a Unix socket, to encrypt a random seed. Each value is encrypted with a key of
// its own that is derived from the seed and 32 random bytes (HKDF), so the plugin is asked again only when its own key
// changes, and to decrypt seeds of the past, which are kept (see seeds).
package encryption
