package resource

import (
	"context"
	"strings"

	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

// Limits of the status of a request.
const (
	mostPools          = 1000
	mostPoolConditions = 10
	mostSummaries      = 32
	longestPoolError   = 256
)

func (v *validator) validatePoolStatusRequest(_ context.Context, r *resourcev1alpha3.ResourcePoolStatusRequest) field.ErrorList {
	e := rules.At(specPath)
	e.Add(rules.ObjectMeta(&r.ObjectMeta, false, rules.Subdomain))
	s := &r.Spec
	anyCaseSubdomain("driver", s.Driver, e)
	if s.PoolName != nil {
		poolParts(*s.PoolName, e.Field("poolName"))
	}
	if s.Limit != nil {
		e.Range("limit", int64(*s.Limit), 1, int64(resourcev1alpha3.ResourcePoolStatusRequestLimitMax))
	}
	if name := s.DefaultPartitionTypeAttribute; name != nil {
		if v.Gates.Enabled(features.DRAPartitionableDevicesType) {
			partitionAttribute("defaultPartitionTypeAttribute", *name, e)
		} else {
			e.Field("defaultPartitionTypeAttribute").Forbidden("")
		}
	}
	return e.List()
}

// anyCaseSubdomain requires a DNS subdomain, in which upper case counts as lower case.
func anyCaseSubdomain(name, value string, e rules.Errors) {
	if e.Present(name, value) {
		e.Field(name).Messages(value, validation.IsDNS1123Subdomain(strings.ToLower(value)))
	}
}

// partitionAttribute is fullName with a domain in lower case.
func partitionAttribute(name, value string, e rules.Errors) {
	fullName(name, value, e)
	if domain, _, _ := strings.Cut(value, "/"); domain != strings.ToLower(domain) && strings.Count(value, "/") == 1 {
		e.Field(name).Invalid(value, "the domain must be in lower case")
	}
}

func validatePoolStatusRequestUpdate(_ context.Context, r, old *resourcev1alpha3.ResourcePoolStatusRequest) field.ErrorList {
	errs := rules.ObjectMetaUpdate(&r.ObjectMeta, &old.ObjectMeta)
	return append(errs, rules.Immutable(r.Spec, old.Spec, specPath)...)
}

// validatePoolStatus allows one answer.
func validatePoolStatus(_ context.Context, r, old *resourcev1alpha3.ResourcePoolStatusRequest) field.ErrorList {
	e := rules.At(statusPath)
	e.Add(rules.ObjectMetaUpdate(&r.ObjectMeta, &old.ObjectMeta))
	s, was := r.Status, old.Status
	if was != nil {
		e.Add(rules.Immutable(s, was, statusPath))
	} else {
		was = &resourcev1alpha3.ResourcePoolStatusRequestStatus{}
	}
	if s == nil || apiequality.Semantic.DeepEqual(s, was) && old.Status != nil {
		return e.List()
	}
	if s.PoolCount == nil || !apiequality.Semantic.DeepEqual(s.PoolCount, was.PoolCount) {
		count("poolCount", s.PoolCount, e)
	}
	if !apiequality.Semantic.DeepEqual(s.Pools, was.Pools) {
		list(s.Pools, mostPools, e.Field("pools"), poolStatus)
	}
	at := e.Field("conditions")
	if n := len(s.Conditions); n > mostPoolConditions && !apiequality.Semantic.DeepEqual(s.Conditions, was.Conditions) {
		e.AddError(field.TooMany(at.Path(), n, mostPoolConditions))
	}
	if old.Status == nil {
		e.Add(metavalidation.ValidateConditions(s.Conditions, at.Path()))
	}
	return e.List()
}

// count requires a number that is not negative.
func count(name string, n *int32, e rules.Errors) {
	if n == nil {
		e.Field(name).Required("")
		return
	}
	e.Nonnegative(name, int64(*n))
}

func poolStatus(p *resourcev1alpha3.PoolStatus, e rules.Errors) {
	anyCaseSubdomain("driver", p.Driver, e)
	if e.Present("poolName", p.PoolName) {
		poolParts(p.PoolName, e.Field("poolName"))
	}
	if p.Generation == 0 {
		e.Field("generation").Required("")
	}
	e.Nonnegative("generation", p.Generation)
	if p.ResourceSliceCount != nil {
		e.Positive("resourceSliceCount", int64(*p.ResourceSliceCount))
	}
	rules.NonnegativePtr(e, "totalDevices", p.TotalDevices)
	rules.NonnegativePtr(e, "allocatedDevices", p.AllocatedDevices)
	rules.NonnegativePtr(e, "availableDevices", p.AvailableDevices)
	rules.NonnegativePtr(e, "unavailableDevices", p.UnavailableDevices)
	if p.NodeName != nil {
		e.Field("nodeName").Messages(*p.NodeName, validation.IsDNS1123Subdomain(*p.NodeName))
	}
	if p.ValidationError != nil && len(*p.ValidationError) > longestPoolError {
		e.Field("validationError").TooLong(longestPoolError)
	}
	set(p.PartitionSummary, mostSummaries, e.Field("partitionSummary"), func(s *resourcev1alpha3.PartitionTypeStatus) [2]string {
		return [2]string{s.Attribute, s.Type}
	}, partitionSummary)
	if s := p.ShareableSummary; s != nil {
		at := e.Field("shareableSummary")
		count("fullyAvailableDevices", s.FullyAvailableDevices, at)
		count("partiallyAvailableDevices", s.PartiallyAvailableDevices, at)
		list(s.Capacity, mostSummaries, at.Field("capacity"), shareableCapacity)
	}
}

func partitionSummary(s *resourcev1alpha3.PartitionTypeStatus, e rules.Errors) {
	e.Present("attribute", s.Attribute)
	e.Present("type", s.Type)
	count("total", s.Total, e)
	count("allocatable", s.Allocatable, e)
}

func shareableCapacity(s *resourcev1alpha3.ShareableCapacityStatus, e rules.Errors) {
	e.Present("name", s.Name)
	for _, q := range []struct {
		name  string
		value *apiresource.Quantity
	}{{"total", s.Total}, {"consumed", s.Consumed}, {"available", s.Available}} {
		if q.value == nil {
			e.Field(q.name).Required("")
		}
	}
}
