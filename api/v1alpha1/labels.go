package v1alpha1

// Labels and annotations of what Holdfast makes. A label's value is at most 63 characters, so objects are tied to
// their owner by its UID; the owner's name, which may be longer, stands in an annotation.
const (
	LabelManagedBy      = "app.kubernetes.io/managed-by"
	ManagedBy           = "holdfast"
	LabelOwnerUID       = "holdfast.dev/owner-uid"
	LabelStage          = "holdfast.dev/stage"
	LabelClaim          = "holdfast.dev/claim-uid"
	AnnotationOwnerName = "holdfast.dev/owner-name"
	AnnotationClaim     = "holdfast.dev/claim"

	// Finalizer holds an object until what its deletionPolicy names is gone and its running work has ended.
	Finalizer = "holdfast.dev/cleanup"
)
