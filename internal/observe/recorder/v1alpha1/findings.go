package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Severities of findings.
const (
	// SeverityError: requests fail or objects are in danger now.
	SeverityError = "Error"
	// SeverityWarning: something is delayed or stuck, or will fail soon.
	SeverityWarning = "Warning"
	// SeverityInfo: worth to know; nobody suffers yet.
	SeverityInfo = "Info"
)

// Finding is something that is wrong now. Its name stays the same as long as it lasts.
type Finding struct {
	metav1.TypeMeta   `json:",inline" doc:"Something that is wrong now, with its cause and what to do. Its name stays the same as long as it lasts."`
	metav1.ObjectMeta `json:"metadata"`

	Check    string           `json:"check" doc:"What kind of finding it is, as WebhookFailing. The metric kanzen_findings counts by it."`
	Severity string           `json:"severity" doc:"Error: requests fail or objects are in danger now. Warning: something is delayed or stuck, or will fail soon. Info: worth to know."`
	Since    metav1.Time      `json:"since" doc:"Since when it is so, as far as the server knows."`
	Object   *ObjectReference `json:"object,omitempty" doc:"The object that it is about."`
	// Objects are for who looks at one of them, and asks what is wrong with it.
	Objects  []ObjectReference `json:"objects,omitempty" doc:"Objects that suffer from it or hold it up, as far as the reader may get them; at most 50."`
	Summary  string            `json:"summary" doc:"What is wrong, in a sentence."`
	Impact   string            `json:"impact,omitempty" doc:"Who suffers from it, and how much."`
	Cause    string            `json:"cause,omitempty" doc:"Why it is so."`
	Evidence []string          `json:"evidence,omitempty" doc:"What the server has seen."`
	Requests []string          `json:"requests,omitempty" doc:"Names of recorded requests that show it."`
	Commands []string          `json:"commands,omitempty" doc:"Commands that show more or help, to be pasted."`
}

// FindingList is a list of findings.
type FindingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Finding `json:"items"`
}
