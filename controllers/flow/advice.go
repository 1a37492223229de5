package flow

import (
	"reflect"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// advise ends the message of a failure with what to do next: a spec never changes, so a mended one is a new object's.
func advise(subject Subject, message string) string {
	next := successor(subject)
	if strings.Contains(message, next) {
		return message
	}
	return join(message, untouched(subject, message)+scheduled(subject, "Once that is mended, "+next+": this one is not tried again"))
}

// untouched says of a restore that failed before it began to load what a person wants to know first.
func untouched(subject Subject, message string) string {
	if _, restore := subject.(*v1alpha1.DatabaseRestore); !restore || IsTrue(subject, v1alpha1.ConditionVerified) || strings.Contains(message, "touched") {
		return ""
	}
	return "The target was not touched. "
}

// scheduled is the advice for a backup that a schedule made: what is to mend stands in its template.
func scheduled(subject Subject, otherwise string) string {
	name := subject.GetAnnotations()[v1alpha1.AnnotationSchedule]
	if name == "" || subject.GetLabels()[v1alpha1.LabelSchedule] == "" {
		return otherwise
	}
	return "What to mend in spec stands in spec.template.spec of BackupSchedule " + name + ". This backup is not tried again: the next run " +
		"makes another, or the annotation " + v1alpha1.AnnotationRunNow + " of the BackupSchedule does at once"
}

// deadlineMessage says what an object waited for when its time was over, and what to do next.
func deadlineMessage(subject Subject, timeout time.Duration, step Step, last string) string {
	return "not done within spec.timeout of " + timeout.String() + " (stage " + step.Stage + "): " + join(last,
		"Mend what it waited for, or set a longer spec.timeout, and "+successor(subject)+": this one is not tried again")
}

// successor says what a person makes in place of an object that failed. A safety backup is made by its restore.
func successor(subject Subject) string {
	kind := reflect.TypeOf(subject).Elem().Name()
	if owner := metav1.GetControllerOfNoCopy(subject); owner != nil && strings.HasPrefix(owner.APIVersion, v1alpha1.GroupVersion.Group+"/") {
		kind = owner.Kind
	}
	return "create a new " + kind
}

// join puts a sentence behind a text, on a line of its own where the text has several: the last words of a client
// program end wherever they do.
func join(text, sentence string) string {
	if text = strings.TrimSpace(text); strings.Contains(text, "\n") {
		return text + "\n" + sentence
	}
	return strings.TrimRight(text, ".") + ". " + sentence
}
