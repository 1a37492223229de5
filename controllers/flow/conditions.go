package flow

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/contract"
)

// maxMessage is the most that metav1.Condition allows in a message.
const maxMessage = 32768

// Subject is an object that is led through steps.
type Subject interface {
	client.Object
	Progress() v1alpha1.Progress
}

// IsTrue says whether a condition of the subject is True.
func IsTrue(subject Subject, conditionType string) bool {
	return meta.IsStatusConditionTrue(*subject.Progress().Conditions, conditionType)
}

// Has says whether a condition of the subject is there at all, whatever its status: its stage was reached.
func Has(subject Subject, conditionType string) bool {
	return meta.FindStatusCondition(*subject.Progress().Conditions, conditionType) != nil
}

// ReasonOf returns the reason of a condition of the subject, or nothing where it has no such condition.
func ReasonOf(subject Subject, conditionType string) string {
	if condition := meta.FindStatusCondition(*subject.Progress().Conditions, conditionType); condition != nil {
		return condition.Reason
	}
	return ""
}

// Ended says whether the subject is Ready or Stalled, and so never changes again.
func Ended(subject Subject) bool {
	return IsTrue(subject, v1alpha1.ConditionReady) || IsTrue(subject, v1alpha1.ConditionStalled)
}

// MarkTrue sets a condition of the subject to True.
func MarkTrue(subject Subject, conditionType, reason, message string) {
	mark(subject, conditionType, metav1.ConditionTrue, reason, message)
}

// MarkFalse sets a condition of the subject to False.
func MarkFalse(subject Subject, conditionType, reason, message string) {
	mark(subject, conditionType, metav1.ConditionFalse, reason, message)
}

// Complete makes the subject Ready.
func Complete(subject Subject, now time.Time, message string) {
	MarkTrue(subject, v1alpha1.ConditionReady, v1alpha1.ReasonSucceeded, message)
	complete(subject, now)
}

// stall ends the subject for good and returns the cause: Ready says which stage failed, Stalled says why, and so does
// the condition that the step would have made True, if it has one.
func stall(subject Subject, now time.Time, step Step, cause *Stall) error {
	if step.Condition != "" {
		MarkFalse(subject, step.Condition, cause.Reason, cause.Message)
	}
	MarkFalse(subject, v1alpha1.ConditionReady, step.Failed, cause.Message)
	MarkTrue(subject, v1alpha1.ConditionStalled, cause.Reason, cause.Message)
	complete(subject, now)
	return cause
}

func complete(subject Subject, now time.Time) {
	completion := metav1.NewTime(now)
	*subject.Progress().CompletionTime = &completion
}

func mark(subject Subject, conditionType string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(subject.Progress().Conditions, metav1.Condition{
		Type: conditionType, Status: status, Reason: reason, Message: contract.CutMiddle(message, maxMessage),
		ObservedGeneration: subject.GetGeneration(),
	})
}
