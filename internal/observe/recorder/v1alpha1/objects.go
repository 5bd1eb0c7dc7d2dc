package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kanzen-io/kanzen/internal/request"
)

// FieldChange is a field that has changed.
type FieldChange = request.FieldChange

// shared copies an object that shares all but its metadata with the original, because the rest is immutable.
func shared[T any, P interface {
	*T
	runtime.Object
	metav1.ObjectMetaAccessor
}](obj P) runtime.Object {
	c := *obj
	meta := P(&c).GetObjectMeta().(*metav1.ObjectMeta)
	*meta = *meta.DeepCopy()
	return P(&c)
}

// sharedList copies a list that shares its items with the original.
func sharedList[T any, P interface {
	*T
	runtime.Object
}](list P) runtime.Object {
	c := *list
	return P(&c)
}

// DeepCopyObject is part of runtime.Object.
func (o *AccessExplanation) DeepCopyObject() runtime.Object {
	c := shared(o).(*AccessExplanation)
	o.Spec.DeepCopyInto(&c.Spec)
	return c
}

// DeepCopyObject is part of runtime.Object.
func (o *Request) DeepCopyObject() runtime.Object { return shared(o) }

// DeepCopyObject is part of runtime.Object.
func (o *Watch) DeepCopyObject() runtime.Object { return shared(o) }

// DeepCopyObject is part of runtime.Object.
func (o *WebhookStat) DeepCopyObject() runtime.Object { return shared(o) }

// DeepCopyObject is part of runtime.Object.
func (o *DeprecatedUse) DeepCopyObject() runtime.Object { return shared(o) }

// DeepCopyObject is part of runtime.Object.
func (o *ObjectHistory) DeepCopyObject() runtime.Object { return shared(o) }

// DeepCopyObject is part of runtime.Object.
func (o *TrafficStat) DeepCopyObject() runtime.Object { return shared(o) }

// DeepCopyObject is part of runtime.Object.
func (o *TimeSeries) DeepCopyObject() runtime.Object { return shared(o) }

// DeepCopyObject is part of runtime.Object.
func (o *View) DeepCopyObject() runtime.Object { return shared(o) }

// DeepCopyObject is part of runtime.Object.
func (o *Controller) DeepCopyObject() runtime.Object { return shared(o) }

// DeepCopyObject is part of runtime.Object.
func (o *Datastore) DeepCopyObject() runtime.Object { return shared(o) }

// DeepCopyObject is part of runtime.Object.
func (o *PlaneStat) DeepCopyObject() runtime.Object { return shared(o) }

// DeepCopyObject is part of runtime.Object.
func (o *PlaneServer) DeepCopyObject() runtime.Object { return shared(o) }

// DeepCopyObject is part of runtime.Object.
func (o *PriorityLevel) DeepCopyObject() runtime.Object { return shared(o) }

// DeepCopyObject is part of runtime.Object.
func (o *Definition) DeepCopyObject() runtime.Object { return shared(o) }

// DeepCopyObject is part of runtime.Object.
func (o *Finding) DeepCopyObject() runtime.Object { return shared(o) }

// DeepCopyObject is part of runtime.Object.
func (l *FindingList) DeepCopyObject() runtime.Object { return sharedList(l) }

// DeepCopyObject is part of runtime.Object.
func (l *RequestList) DeepCopyObject() runtime.Object { return sharedList(l) }

// DeepCopyObject is part of runtime.Object.
func (l *WatchList) DeepCopyObject() runtime.Object { return sharedList(l) }

// DeepCopyObject is part of runtime.Object.
func (l *WebhookStatList) DeepCopyObject() runtime.Object { return sharedList(l) }

// DeepCopyObject is part of runtime.Object.
func (l *DeprecatedUseList) DeepCopyObject() runtime.Object { return sharedList(l) }

// DeepCopyObject is part of runtime.Object.
func (l *ObjectHistoryList) DeepCopyObject() runtime.Object { return sharedList(l) }

// DeepCopyObject is part of runtime.Object.
func (l *TrafficStatList) DeepCopyObject() runtime.Object { return sharedList(l) }

// DeepCopyObject is part of runtime.Object.
func (l *TimeSeriesList) DeepCopyObject() runtime.Object { return sharedList(l) }

// DeepCopyObject is part of runtime.Object.
func (l *ViewList) DeepCopyObject() runtime.Object { return sharedList(l) }

// DeepCopyObject is part of runtime.Object.
func (l *ControllerList) DeepCopyObject() runtime.Object { return sharedList(l) }

// DeepCopyObject is part of runtime.Object.
func (l *DatastoreList) DeepCopyObject() runtime.Object { return sharedList(l) }

// DeepCopyObject is part of runtime.Object.
func (l *PlaneStatList) DeepCopyObject() runtime.Object { return sharedList(l) }

// DeepCopyObject is part of runtime.Object.
func (l *PlaneServerList) DeepCopyObject() runtime.Object { return sharedList(l) }

// DeepCopyObject is part of runtime.Object.
func (l *PriorityLevelList) DeepCopyObject() runtime.Object { return sharedList(l) }

// DeepCopyObject is part of runtime.Object.
func (l *DefinitionList) DeepCopyObject() runtime.Object { return sharedList(l) }

// DeepCopyObject is part of runtime.Object.
func (l *AccessExplanationList) DeepCopyObject() runtime.Object { return sharedList(l) }
