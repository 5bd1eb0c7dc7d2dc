package flowcontrol

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
)

// Controller divides the server's seats among requests, as the FlowSchemas and PriorityLevelConfigurations say.
type Controller struct {
	total   int // seats
	clock   clock.WithDelayedExecution
	stats   Stats
	metrics *Metrics
	watches watches

	// schemas are matched against requests in order; the slice is replaced whole.
	schemas atomic.Pointer[[]*flow]

	mu     sync.Mutex
	levels map[string]*level // guarded by mu
	sum    int               // sum of all levels' nominal seats; guarded by mu
}

// New makes a Controller with the given number of seats. It knows only the mandatory objects.
func New(seats int, clk clock.WithDelayedExecution, stats Stats, m *Metrics) *Controller {
	c := &Controller{total: seats, clock: clk, stats: stats, metrics: m, levels: map[string]*level{}}
	c.watches.count = map[watched]int{}
	m.of(seats)
	c.Configure(nil, nil)
	return c
}

// Configure replaces the objects in use. Mandatory objects that are missing are added. Schemas whose level does not
// exist are ignored.
func (c *Controller) Configure(levels []*flowcontrolv1.PriorityLevelConfiguration, schemas []*flowcontrolv1.FlowSchema) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wanted := map[string]*flowcontrolv1.PriorityLevelConfiguration{}
	for _, pl := range append(mandatoryLevels(), levels...) {
		if wellFormed(pl) {
			wanted[pl.Name] = pl
		}
	}
	next := map[string]*level{}
	for name, pl := range wanted {
		l := c.levels[name]
		if l == nil || exempt(l.PriorityLevelConfiguration) != exempt(pl) {
			l = newLevel(pl, c.clock, c.metrics)
		} else {
			// Keep the level's value: its queues hold requests.
			l = l.with(pl)
		}
		next[name] = l
	}
	for name, l := range c.levels {
		if next[name] == nil {
			if l.idle() {
				c.metrics.forgetLevel(name)
				continue
			}
			l.quiescing = true
			next[name] = l
		}
	}
	c.levels = next
	c.divide()
	c.adjust()
	c.classifyBy(schemas)
}

// with returns the level with another object.
func (l *level) with(pl *flowcontrolv1.PriorityLevelConfiguration) *level {
	l.PriorityLevelConfiguration, l.quiescing = pl, false
	return l
}

func exempt(pl *flowcontrolv1.PriorityLevelConfiguration) bool {
	return pl.Spec.Type == flowcontrolv1.PriorityLevelEnablementExempt
}

// wellFormed reports whether an object passes validation. Another server may have stored one that does not.
func wellFormed(pl *flowcontrolv1.PriorityLevelConfiguration) bool {
	if exempt(pl) != (pl.Spec.Exempt != nil) || exempt(pl) == (pl.Spec.Limited != nil) {
		return false
	}
	if pl.Spec.Limited == nil || pl.Spec.Limited.LimitResponse.Queuing == nil {
		return true
	}
	q := pl.Spec.Limited.LimitResponse.Queuing
	return q.Queues > 0 && q.HandSize > 0 && q.HandSize <= q.Queues && q.HandSize <= 16
}

// divide sets the nominal seats of each level.
func (c *Controller) divide() {
	shares := 0
	for _, l := range c.levels {
		n, _, _ := terms(l.PriorityLevelConfiguration)
		shares += n
	}
	c.sum = 0
	for _, l := range c.levels {
		n, lendable, borrowing := terms(l.PriorityLevelConfiguration)
		s := &l.share
		isNew := s.nominal == 0 && s.most == 0
		s.exempt = exempt(l.PriorityLevelConfiguration)
		s.nominal = int(math.Ceil(float64(c.total) * float64(n) / float64(max(shares, 1))))
		lends := int(math.Round(float64(s.nominal) * float64(lendable) / 100))
		s.least, s.most = s.nominal-lends, s.nominal+c.total
		if borrowing >= 0 {
			s.most = s.nominal + int(math.Round(float64(s.nominal)*float64(borrowing)/100))
		}
		if isNew {
			s.capacity = s.nominal - lends/2
		}
		c.sum += s.nominal
		l.metrics.bounds(s)
	}
}

// terms returns a level's shares, and the percentages that it may lend and borrow (-1: unlimited).
func terms(pl *flowcontrolv1.PriorityLevelConfiguration) (shares, lendable, borrowing int) {
	or := func(p *int32, otherwise int) int {
		if p == nil {
			return otherwise
		}
		return int(*p)
	}
	if l := pl.Spec.Limited; l != nil {
		return or(l.NominalConcurrencyShares, 30), or(l.LendablePercent, 0), or(l.BorrowingLimitPercent, -1)
	}
	return or(pl.Spec.Exempt.NominalConcurrencyShares, 0), or(pl.Spec.Exempt.LendablePercent, 0), -1
}

// adjust moves unused seats to levels that can use them. c.mu is held.
func (c *Controller) adjust() {
	now := c.clock.Now()
	var shares []*share
	for _, l := range c.levels {
		l.mu.Lock()
		p := l.demand.reset(now)
		l.mu.Unlock()
		l.share.demand.add(p)
		shares = append(shares, &l.share)
	}
	c.metrics.fair(borrow(c.sum, shares))
	for _, l := range c.levels {
		l.metrics.adjusted(&l.share)
		l.apply(now)
	}
}

// adjustEvery is the period between adjustments of seats.
const adjustEvery = 10 * time.Second

// Adjust moves seats by the demand since the last call, and drops deleted levels that have no requests left.
func (c *Controller) Adjust() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, l := range c.levels {
		if l.quiescing && l.idle() {
			delete(c.levels, name)
			c.metrics.forgetLevel(name)
			c.divide()
		}
	}
	c.adjust()
}

// classifyBy replaces the schemas that requests are matched against.
func (c *Controller) classifyBy(schemas []*flowcontrolv1.FlowSchema) {
	byName := map[string]*flowcontrolv1.FlowSchema{}
	for _, s := range append(mandatorySchemas(), schemas...) {
		byName[s.Name] = s
	}
	var list []*flowcontrolv1.FlowSchema
	for _, s := range byName {
		if l := c.levels[s.Spec.PriorityLevelConfiguration.Name]; l != nil && !l.quiescing {
			list = append(list, s)
		}
	}
	order(list)
	flows := make([]*flow, 0, len(list))
	for _, s := range list {
		l := c.levels[s.Spec.PriorityLevelConfiguration.Name]
		flows = append(flows, &flow{FlowSchema: s, level: l, levelUID: l.UID, exempt: l.share.exempt, maxSeats: l.maxSeats(),
			metrics: c.metrics.flow(l.Name, s.Name)})
	}
	c.schemas.Store(&flows)
}

// mandatoryLevels returns the priority levels that always exist.
func mandatoryLevels() []*flowcontrolv1.PriorityLevelConfiguration {
	none, few := int32(0), int32(5)
	return []*flowcontrolv1.PriorityLevelConfiguration{
		{ObjectMeta: metav1.ObjectMeta{Name: flowcontrolv1.PriorityLevelConfigurationNameExempt}, Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
			Type:   flowcontrolv1.PriorityLevelEnablementExempt,
			Exempt: &flowcontrolv1.ExemptPriorityLevelConfiguration{NominalConcurrencyShares: &none, LendablePercent: &none}}},
		{ObjectMeta: metav1.ObjectMeta{Name: flowcontrolv1.PriorityLevelConfigurationNameCatchAll}, Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
			Type: flowcontrolv1.PriorityLevelEnablementLimited,
			Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{NominalConcurrencyShares: &few, LendablePercent: &none,
				LimitResponse: flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeReject}}}},
	}
}

// mandatorySchemas returns the schemas that always exist: exempt, and the catch-all that matches every request.
func mandatorySchemas() []*flowcontrolv1.FlowSchema {
	schema := func(name string, precedence int32, by *flowcontrolv1.FlowDistinguisherMethod, groups ...string) *flowcontrolv1.FlowSchema {
		var subjects []flowcontrolv1.Subject
		for _, g := range groups {
			subjects = append(subjects, flowcontrolv1.Subject{Kind: flowcontrolv1.SubjectKindGroup, Group: &flowcontrolv1.GroupSubject{Name: g}})
		}
		all := []string{"*"}
		return &flowcontrolv1.FlowSchema{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: flowcontrolv1.FlowSchemaSpec{
			PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: name},
			MatchingPrecedence:         precedence, DistinguisherMethod: by,
			Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
				Subjects:         subjects,
				ResourceRules:    []flowcontrolv1.ResourcePolicyRule{{Verbs: all, APIGroups: all, Resources: all, Namespaces: all, ClusterScope: true}},
				NonResourceRules: []flowcontrolv1.NonResourcePolicyRule{{Verbs: all, NonResourceURLs: all}},
			}},
		}}
	}
	byUser := &flowcontrolv1.FlowDistinguisherMethod{Type: flowcontrolv1.FlowDistinguisherMethodByUserType}
	return []*flowcontrolv1.FlowSchema{
		schema(flowcontrolv1.FlowSchemaNameExempt, 1, nil, "system:masters"),
		schema(flowcontrolv1.FlowSchemaNameCatchAll, 10000, byUser, "system:unauthenticated", "system:authenticated"),
	}
}
