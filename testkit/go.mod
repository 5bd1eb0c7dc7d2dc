module github.com/kanzen-io/kanzen/testkit

go 1.22.0

require sigs.k8s.io/yaml v1.4.0
