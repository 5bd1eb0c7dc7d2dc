package planes

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// This file has the conditions that say where a plane lies, and whether it can be served there.
//
// One server says it, so that not two that reach different etcds contradict each other: the owner of the plane, or of one that is asleep the one that
// would wake it. It writes only when that changes, so nothing is written while an etcd stays away.

const (
	// stored is the condition that says where a plane lies, and what is wrong with that. Planes that were never in a storage class have none.
	stored = "Stored"
	// underWay is its reason while a plane moves.
	underWay = "Moving"
	// noAnswer and notConfigured are the reasons for stored and ready to be False while a plane that was made cannot be served where it lies.
	noAnswer, notConfigured = "NoAnswer", "NotConfigured"
)

// word is what Planes say of an etcd: whether it answers. They do not speak of a moment, such as an election takes. They say that it answers again as
// soon as it has for a while, which is the longer the more often it went away: one that comes and goes does not have all its planes written again and
// again.
type word struct {
	known bool          // it was asked
	away  bool          // it does not answer
	back  time.Time     // since when they say that it does
	calm  time.Duration // for how long it must have answered before they do
}

const (
	// moment is how long an etcd may be away before Planes say so.
	moment = 5 * time.Second
	// mostCalm bounds how long an etcd must have answered before they say that. It is trusted again after twice that time.
	mostCalm = 30 * time.Second
)

// update takes up whether an etcd answers (nil), and since when that is so, and reports whether Planes are to say something else.
func (w *word) update(failure error, since, now time.Time) (changed bool) {
	switch {
	case !w.known:
		w.known, w.away = true, failure != nil
	case failure != nil && !w.away && now.Sub(since) >= moment:
		w.away = true
		if w.back.IsZero() || now.Sub(w.back) >= 2*mostCalm {
			w.calm = 0
		} else {
			w.calm = min(max(2*w.calm, 2*lookEvery), mostCalm)
		}
	case failure == nil && w.away && now.Sub(since) >= w.calm:
		w.away, w.back = false, now
	default:
		return false
	}
	return true
}

// trouble says why planes that lie in a class cannot be served; "": they can. It is not known before the etcd was asked for the first time.
func (f *Fleet) trouble(class string) (reason, message string, known bool) {
	c, err := f.classOf(class)
	switch {
	case err != nil:
		return notConfigured, err.Error(), true
	case c.name == "":
		return "", "", true // what is written here could not be written either
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.word.away {
		return noAnswer, c.silent().Error(), true
	}
	return "", "", c.word.known
}

// troubled returns the reason for which a Plane that was made is not ready; "": there is none.
func troubled(p *Plane) string {
	if c := meta.FindStatusCondition(p.Status.Conditions, ready); c != nil && c.Status == metav1.ConditionFalse && (c.Reason == noAnswer || c.Reason == notConfigured) {
		return c.Reason
	}
	return ""
}

// made reports whether all that belongs to a Plane was made, as its status says. It is not made anew because its etcd is away.
func made(p *Plane) bool {
	return meta.IsStatusConditionTrue(p.Status.Conditions, ready) || troubled(p) != ""
}

// judges reports whether it is this server that says whether a plane can be served where it lies.
func (f *Fleet) judges(h *hosted) bool {
	o := f.owners.Load()
	if o == nil {
		return f.on.Embedded() // otherwise there may be others
	}
	judge, _ := o.Owner(h.uid)
	if judge == nil {
		judge = f.preferred(o, h)
	}
	if judge == nil {
		judge = o.Chosen(h.uid)
	}
	return judge == o.Self()
}

// misjudged reports whether this server is to say something else of a plane than its status does.
func (f *Fleet) misjudged(h *hosted) bool {
	h.mu.Lock()
	class, says, over := h.class, h.trouble, h.over
	h.mu.Unlock()
	reason, _, known := f.trouble(class)
	return known && reason != says && !over && h.isMade() && f.judges(h)
}

// readiness is the condition ready of a plane; failure is why not all that belongs to it is there.
func (f *Fleet) readiness(h *hosted, p *Plane, failure error) metav1.Condition {
	c := metav1.Condition{Type: ready, Status: metav1.ConditionTrue, Reason: "Served", Message: "requests are answered", ObservedGeneration: p.Generation}
	reason, message, known := f.trouble(h.lying())
	switch is := meta.FindStatusCondition(p.Status.Conditions, ready); {
	case failure != nil:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, "Failed", failure.Error()
	case made(p) && (!known || !f.judges(h)):
		c.Status, c.Reason, c.Message = is.Status, is.Reason, is.Message
	case reason != "":
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, reason, "requests are answered with 503: "+message
	}
	return c
}

// judged reports whether a status says what this server has to say of where the plane lies.
func (f *Fleet) judged(h *hosted, p *Plane) bool {
	if !f.judges(h) {
		return true
	}
	is, c := meta.FindStatusCondition(p.Status.Conditions, ready), f.readiness(h, p, nil)
	return f.storageTold(h, p) && is != nil && is.Status == c.Status && is.Reason == c.Reason && is.Message == c.Message
}

// turned makes an Event of a plane that cannot be served where it lies, or can again; was is its condition ready before.
func (f *Fleet) turned(h *hosted, was *metav1.Condition, p *Plane) {
	now := meta.FindStatusCondition(p.Status.Conditions, ready)
	switch {
	case was == nil || was.Status == now.Status:
	case troubled(p) != "":
		f.event(h, corev1.EventTypeWarning, "Unavailable", now.Message)
	case was.Reason == noAnswer || was.Reason == notConfigured:
		away := now.LastTransitionTime.Sub(was.LastTransitionTime.Time).Round(time.Second)
		f.event(h, corev1.EventTypeNormal, "Available", fmt.Sprintf("requests are answered again, after %v", away))
	}
}

// storedCondition is what the status says of where a plane lies, as this server knows it.
func (f *Fleet) storedCondition(h *hosted, p *Plane) *metav1.Condition {
	h.mu.Lock()
	lies, wanted, failure, made := h.class, p.Spec.StorageClass, h.unmoved, h.isMade()
	h.mu.Unlock()
	if lies == "" && wanted == "" && failure == nil && meta.FindStatusCondition(p.Status.Conditions, stored) == nil {
		return nil
	}
	c := &metav1.Condition{Type: stored, Status: metav1.ConditionFalse, ObservedGeneration: p.Generation}
	known := false
	switch c.Reason, c.Message, known = f.trouble(lies); {
	case !known && meta.FindStatusCondition(p.Status.Conditions, stored) != nil:
		return nil
	case c.Reason != "":
		return c
	}
	_, err := f.classOf(wanted)
	switch {
	case made && wanted != lies && err != nil:
		c.Reason, c.Message = notConfigured, err.Error()
	case made && wanted != lies && failure != nil:
		c.Reason, c.Message = "MoveFailed", fmt.Sprintf("its objects stay in %s: %v", placeOf(lies), failure)
	case made && wanted != lies:
		c.Reason, c.Message = underWay, fmt.Sprintf("its objects move from %s to %s", placeOf(lies), placeOf(wanted))
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, "Stored", "its objects are in "+placeOf(lies)
	}
	return c
}

// storageTold reports whether a status says where the plane lies.
func (f *Fleet) storageTold(h *hosted, p *Plane) bool {
	c := f.storedCondition(h, p)
	if c == nil {
		return true
	}
	is := meta.FindStatusCondition(p.Status.Conditions, stored)
	return p.Status.storageClass() == h.lying() && is != nil && is.Status == c.Status && is.Reason == c.Reason && is.Message == c.Message
}

// tellStorage says in a status where the plane lies.
func (f *Fleet) tellStorage(h *hosted, p *Plane) {
	c := f.storedCondition(h, p)
	if c == nil {
		return
	}
	c.LastTransitionTime = metav1.NewTime(f.on.Clock.Now())
	meta.SetStatusCondition(&p.Status.Conditions, *c)
	p.Status.StorageClass = nil
	if lies := h.lying(); lies != "" {
		p.Status.StorageClass = &lies
	}
}
