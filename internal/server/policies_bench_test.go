package server

import (
	"fmt"
	"testing"
)

// policyExpressions are what policies ask in clusters (those of bench/admission.go).
var policyExpressions = []string{
	"object.spec.containers.all(c, !c.image.endsWith(':latest'))",
	"!has(object.spec.hostNetwork) || !object.spec.hostNetwork",
	"object.spec.containers.all(c, !has(c.securityContext) || !has(c.securityContext.privileged) || !c.securityContext.privileged)",
	"object.metadata.name.size() < 200",
	"!has(object.spec.volumes) || object.spec.volumes.all(v, !has(v.hostPath))",
}

// BenchmarkCreatePodUnderPolicies creates pods that twenty validating policies look at.
func BenchmarkCreatePodUnderPolicies(b *testing.B) {
	s := start(b)
	withAccount(b, s)
	const registration = "/apis/admissionregistration.k8s.io/v1/"
	for i := range 20 {
		do(b, s, "POST", registration+"validatingadmissionpolicies", "application/json", "", fmt.Appendf(nil, `{"metadata":{"name":"p%d"},"spec":{
			"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE","UPDATE"],"resources":["pods"]}]},
			"variables":[{"name":"names","expression":"object.spec.containers.map(c, c.name)"}],
			"validations":[{"expression":%q,"messageExpression":"'not ' + object.metadata.name"},{"expression":"variables.names.size() > 0"}]}}`,
			i, policyExpressions[i%len(policyExpressions)]), 201)
		do(b, s, "POST", registration+"validatingadmissionpolicybindings", "application/json", "",
			fmt.Appendf(nil, `{"metadata":{"name":"p%d"},"spec":{"policyName":"p%d","validationActions":["Deny"]}}`, i, i), 201)
	}
	b.ReportAllocs()
	before, n := cpu(b), 0
	for b.Loop() {
		n++
		do(b, s, "POST", pods, "application/json", "", podJSON(b, fmt.Sprintf("p%d", n)), 201)
	}
	b.ReportMetric(float64(cpu(b)-before)/float64(b.N), "cpu-ns/op")
}
