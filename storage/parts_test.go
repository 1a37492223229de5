package storage

import "testing"

// Sizes around each limit, and a sweep between them.
func sizesToTry() []int64 {
	sizes := []int64{0, 1, MinPartSize - 1, MinPartSize, smallestPart, smallestPart + 1, fewParts * smallestPart,
		fewParts*smallestPart + 1, fewParts * modestPart, fewParts*modestPart + 1, MaxObjectSize - 1, MaxObjectSize}
	for size := int64(1); size < MaxObjectSize; size += size/7 + 1 {
		sizes = append(sizes, size)
	}
	return sizes
}

func TestPartSizeKeepsTheLimitsOfS3(t *testing.T) {
	for _, size := range sizesToTry() {
		part := PartSize(size)
		parts := (size + part - 1) / part
		if part < MinPartSize || part > MaxPartSize {
			t.Errorf("%d bytes: part size %d is not between 5 MiB and 5 GiB", size, part)
		}
		if parts > MaxParts {
			t.Errorf("%d bytes: %d parts of %d", size, parts, part)
		}
		if size <= fewParts*modestPart && parts > fewParts {
			t.Errorf("%d bytes: %d parts of %d, though some stores take only %d", size, parts, part, fewParts)
		}
		if part%mebi != 0 {
			t.Errorf("%d bytes: part size %d is no whole number of MiB", size, part)
		}
	}
}

func TestPartSizeNeverShrinks(t *testing.T) {
	last := int64(0)
	for size := int64(1); size < MaxObjectSize; size += size/13 + 1 {
		if part := PartSize(size); part < last {
			t.Fatalf("%d bytes: part size fell from %d to %d", size, last, part)
		} else {
			last = part
		}
	}
}

func TestStreamOfLargestSizeFitsTheParts(t *testing.T) {
	var total, last int64
	for number := 1; number <= MaxParts; number++ {
		size, _ := StreamPart(number)
		if size < MinPartSize || size > MaxPartSize || size < last {
			t.Fatalf("part %d: size %d after %d", number, size, last)
		}
		total, last = total+size, size
	}
	if total < MaxObjectSize {
		t.Fatalf("%d parts hold %d bytes, less than an object of %d", MaxParts, total, int64(MaxObjectSize))
	}
}

func TestStreamMemoryIsBounded(t *testing.T) {
	bounds := []struct{ sent, memory int64 }{ // what the comment of StreamPart and the documentation promise
		{109 << 30, 64 * mebi}, {234 << 30, 128 * mebi}, {734 << 30, 512 * mebi}, {MaxObjectSize, 1152 * mebi}}
	var sent int64
	for number := 1; sent < MaxObjectSize; number++ {
		size, buffers := StreamPart(number)
		for _, bound := range bounds {
			if sent+size <= bound.sent && size*int64(buffers) > bound.memory {
				t.Fatalf("part %d at %d bytes: %d buffers of %d pass %d", number, sent, buffers, size, bound.memory)
			}
		}
		sent += size
	}
}

func TestStreamPartAfterTheLastStep(t *testing.T) {
	size, buffers := StreamPart(MaxParts + 1)
	if last := streamSteps[len(streamSteps)-1]; size != last.size || buffers != last.buffers {
		t.Fatalf("got %d × %d", buffers, size)
	}
}
