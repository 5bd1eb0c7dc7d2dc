// Package cbor has the tests of CBOR, beside kube-apiserver where it is built: with the feature gate CBORServingAndStorage both servers are
// asked the same.
package cbor
