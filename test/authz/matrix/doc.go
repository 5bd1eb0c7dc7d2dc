// Package matrix puts generated requests to kanzen and to kube-apiserver and
// holds their answers and what they have stored afterwards against each other:
// every route of discovery, whole and mangled, with every method, as users who
// have one right each, with bodies that say something else than the path.
//
// A difference fails the test unless testdata/accepted.yaml names it, with the
// reason. testdata/answers.jsonl.gz has what kube-apiserver answered to some of
// them, for machines where it cannot be started.
package matrix
