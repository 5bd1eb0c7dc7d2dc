package engine

import (
	"context"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	internalscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/request"
)

// delete removes an object, or begins its deletion.
func (c *call) delete() error {
	out, err := negotiate(c.req, c.restrict())
	if err != nil {
		return err
	}
	options, err := c.deleteOptions()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.req.Context(), writeTimeout)
	defer cancel()
	if wantsUnsafe(options) {
		c.dryRun = admission.IsDryRun(options.DryRun)
		if err := c.unsafeDelete(ctx); err != nil {
			return c.storeError(err, c.name)
		}
		return c.answerUnsafe(out)
	}
	if f := c.R.Rules.WarnDelete; f != nil {
		request.AddWarning(ctx, f(options))
	}
	c.span.Event("About to delete object from database")
	done, err := c.removeObject(ctx, options)
	if err != nil {
		return c.storeError(err, c.name)
	}
	c.span.Event("Object deleted from database")
	return c.answerDelete(out, done, options)
}

// answerDelete answers a deletion: with the object if it still exists or its
// kind returns deleted objects, else with a Status that names it.
func (c *call) answerDelete(out output, done *outcome, options *metav1.DeleteOptions) error {
	defer c.answers().End()
	obj, gone, code := done.obj, done.item == nil, http.StatusOK
	if orphan := orphanDependents(options); !gone && orphan != nil && !*orphan {
		code = http.StatusAccepted
	}
	if !gone {
		return c.writeStored(code, out, done.item)
	}
	if c.R.ReturnDeleted || c.V.Lenient {
		return c.writeObject(code, out, obj)
	}
	st := &metav1.Status{Status: metav1.StatusSuccess, Details: &metav1.StatusDetails{
		Name: obj.GetName(), Group: c.GVR.Group, Kind: c.GVR.Resource, UID: obj.GetUID(),
	}}
	st.SetGroupVersionKind(statusGVK)
	return writeAny(c.w, c.req, code, out, st)
}

// deleteOptions reads the options of a deletion: from the body, or from the
// query if there is no body. (With a body the query is ignored, as in
// kube-apiserver.)
func (c *call) deleteOptions() (*metav1.DeleteOptions, error) {
	body, err := c.body()
	if err != nil {
		return nil, err
	}
	options := &metav1.DeleteOptions{}
	if sent, ok := localObject(c.req).(*metav1.DeleteOptions); ok {
		sent.DeepCopyInto(options)
	} else if len(body) == 0 {
		if err := c.decodeQuery(options); err != nil {
			return nil, err
		}
	} else if err := c.decodeDeleteOptions(body, options); err != nil {
		return nil, err
	}
	if !c.e.UnsafeDelete {
		options.IgnoreStoreReadErrorWithClusterBreakingPotential = nil
	}
	if err := invalidOptions("DeleteOptions", validation.ValidateDeleteOptions(options)); err != nil {
		return nil, err
	}
	return options, nil
}

// optionCodecs read options in all media types.
var optionCodecs = serializer.NewCodecFactory(internalscheme.Scheme, serializer.WithSerializer(cbor.NewSerializerInfo))

func (c *call) decodeDeleteOptions(body []byte, into *metav1.DeleteOptions) error {
	m, err := inputMedia(c.req, true)
	if err != nil {
		return err
	}
	for _, info := range optionCodecs.SupportedMediaTypes() {
		if info.MediaType != mediaNames[m] {
			continue
		}
		want := metav1.SchemeGroupVersion.WithKind("DeleteOptions")
		obj, _, err := optionCodecs.DecoderToVersion(info.Serializer, want.GroupVersion()).Decode(body, &want, into)
		if err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
		if obj != into {
			return apierrors.NewBadRequest("decoded object cannot be converted to DeleteOptions")
		}
		// The same as in kube-apiserver's audit log: it has the name of a
		// version that is internal to kube-apiserver.
		seen := into.DeepCopy()
		seen.SetGroupVersionKind(schema.GroupVersionKind{Group: metav1.GroupName, Version: "__internal", Kind: "DeleteOptions"})
		auditRequest(c.req, seen)
	}
	return nil
}
