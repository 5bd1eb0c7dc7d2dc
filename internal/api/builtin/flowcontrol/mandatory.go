package flowcontrol

import (
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Names of the objects that always exist.
const (
	nameExempt   = "exempt"
	nameCatchAll = "catch-all"
)

func ptr[T any](v T) *T { return &v }

// MandatoryFlowSchemas returns the two flow schemas that always exist, with their fixed specs: all requests match
// catch-all, and requests of administrators and health checks are exempt.
func MandatoryFlowSchemas() []*flowcontrolv1.FlowSchema {
	everything := func(groups ...string) []flowcontrolv1.PolicyRulesWithSubjects {
		rule := flowcontrolv1.PolicyRulesWithSubjects{
			ResourceRules: []flowcontrolv1.ResourcePolicyRule{{
				Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"},
				ClusterScope: true, Namespaces: []string{"*"},
			}},
			NonResourceRules: []flowcontrolv1.NonResourcePolicyRule{{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}}},
		}
		for _, g := range groups {
			rule.Subjects = append(rule.Subjects, flowcontrolv1.Subject{
				Kind: flowcontrolv1.SubjectKindGroup, Group: &flowcontrolv1.GroupSubject{Name: g},
			})
		}
		return []flowcontrolv1.PolicyRulesWithSubjects{rule}
	}
	return []*flowcontrolv1.FlowSchema{
		{
			ObjectMeta: metav1.ObjectMeta{Name: nameExempt},
			Spec: flowcontrolv1.FlowSchemaSpec{
				PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: nameExempt},
				MatchingPrecedence:         1,
				Rules:                      everything("system:masters"),
			},
		},
		{
			ObjectMeta: metav1.ObjectMeta{Name: nameCatchAll},
			Spec: flowcontrolv1.FlowSchemaSpec{
				PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: nameCatchAll},
				MatchingPrecedence:         maxPrecedence,
				DistinguisherMethod:        &flowcontrolv1.FlowDistinguisherMethod{Type: flowcontrolv1.FlowDistinguisherMethodByUserType},
				Rules:                      everything("system:unauthenticated", "system:authenticated"),
			},
		},
	}
}

// MandatoryPriorityLevels returns the levels of these two.
func MandatoryPriorityLevels() []*flowcontrolv1.PriorityLevelConfiguration {
	return []*flowcontrolv1.PriorityLevelConfiguration{
		{
			ObjectMeta: metav1.ObjectMeta{Name: nameExempt},
			Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
				Type:   flowcontrolv1.PriorityLevelEnablementExempt,
				Exempt: &flowcontrolv1.ExemptPriorityLevelConfiguration{NominalConcurrencyShares: ptr[int32](0), LendablePercent: ptr[int32](0)},
			},
		},
		{
			ObjectMeta: metav1.ObjectMeta{Name: nameCatchAll},
			Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
				Type: flowcontrolv1.PriorityLevelEnablementLimited,
				Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{
					NominalConcurrencyShares: ptr[int32](5), LendablePercent: ptr[int32](0),
					LimitResponse: flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeReject},
				},
			},
		},
	}
}
