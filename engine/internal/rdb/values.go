package rdb

import "fmt"

// Types of values. The names are those of rdb.h, where they begin with RDB_TYPE_.
const (
	typeString          = 0
	typeList            = 1
	typeSet             = 2
	typeZset            = 3
	typeHash            = 4
	typeZset2           = 5
	typeModule2         = 7
	typeHashZipmap      = 9
	typeListZiplist     = 10
	typeSetIntset       = 11
	typeZsetZiplist     = 12
	typeHashZiplist     = 13
	typeListQuicklist   = 14
	typeStream          = 15
	typeHashListpack    = 16
	typeZsetListpack    = 17
	typeListQuicklist2  = 18
	typeStream2         = 19
	typeSetListpack     = 20
	typeStream3         = 21
	typeHashMetadataPre = 22 // Valkey: a hash with an expiry of each field
	typeHashListpackPre = 23
	typeHashMetadata    = 24
	typeHashListpackEx  = 25
	typeStream4         = 26 // with the producers whose repeated entries are told from new ones
	typeStream5         = 27 // with pending entries that no consumer has
)

// MinVersion is the oldest version of the format whose readers know a type of values; 0 for one that is not known.
func MinVersion(valueType byte) int {
	switch {
	case valueType <= typeHash:
		return 1
	case valueType == typeZset2, valueType == typeModule2:
		return 8
	case valueType >= typeHashZipmap && valueType <= typeHashZiplist:
		return 4
	case valueType == typeListQuicklist:
		return 7
	case valueType == typeStream:
		return 9
	case valueType >= typeHashListpack && valueType <= typeStream2:
		return 10
	case valueType == typeSetListpack, valueType == typeStream3:
		return 11
	case valueType >= typeHashMetadataPre && valueType <= typeHashListpackEx:
		return 12
	case valueType == typeStream4:
		return 13
	case valueType == typeStream5:
		return 14
	}
	return 0
}

// OwnOfBrand tells whether Redis and Valkey mean different things by a type of values.
func OwnOfBrand(valueType byte) bool { return valueType >= typeHashMetadataPre }

// value reads a value to its end.
func (r *reader) value(valueType byte) error {
	switch valueType {
	case typeString, typeHashZipmap, typeListZiplist, typeSetIntset, typeZsetZiplist, typeHashZiplist, typeHashListpack,
		typeZsetListpack, typeSetListpack:
		return r.skipString()
	case typeList, typeSet, typeListQuicklist:
		return r.each(r.skipString)
	case typeHash:
		return r.each(r.skipString, r.skipString)
	case typeZset:
		return r.each(r.skipString, r.score)
	case typeZset2:
		return r.each(r.skipString, r.eight)
	case typeListQuicklist2:
		return r.each(r.oneLength, r.skipString)
	case typeStream, typeStream2, typeStream3, typeStream4, typeStream5:
		return r.stream(valueType)
	case typeModule2:
		return r.module()
	case typeHashMetadataPre, typeHashListpackPre, typeHashMetadata, typeHashListpackEx:
		return r.hashWithExpiry(valueType)
	}
	return fmt.Errorf("its value has the type %d: %w", valueType, ErrUnknown)
}

// hashWithExpiry reads a hash whose fields go each at its own time.
func (r *reader) hashWithExpiry(valueType byte) error {
	switch {
	case r.valkey && valueType == typeHashMetadataPre:
		return r.each(r.skipString, r.skipString, r.eight)
	case r.valkey:
		return fmt.Errorf("its value has the type %d, which Valkey does not have: it is damaged", valueType)
	case valueType == typeHashMetadataPre:
		return r.each(r.oneLength, r.skipString, r.skipString)
	case valueType == typeHashListpackPre:
		return r.skipString()
	}
	if err := r.eight(); err != nil { // the first of the times
		return err
	}
	if valueType == typeHashListpackEx {
		return r.skipString()
	}
	return r.each(r.oneLength, r.skipString, r.skipString)
}

// each reads a count and then so many times these parts.
func (r *reader) each(parts ...func() error) error {
	count, err := r.length()
	if err != nil {
		return err
	}
	for ; count > 0; count-- {
		for _, part := range parts {
			if err := part(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *reader) oneLength() error { return r.lengths(1) }
func (r *reader) eight() error     { return r.skip(8) }
func (r *reader) sixteen() error   { return r.skip(16) }

// score reads a number that is written as text; three lengths stand for no number and the infinities.
func (r *reader) score() error {
	length, err := r.byte()
	if err != nil || length >= 253 {
		return err
	}
	return r.skip(uint64(length))
}

// stream reads the entries, the counters and the groups of consumers.
func (r *reader) stream(valueType byte) error {
	if err := r.each(r.skipString, r.skipString); err != nil {
		return err
	}
	counters, groupCounters := 3, 2
	if valueType >= typeStream2 {
		counters, groupCounters = 8, 3
	}
	if err := r.lengths(counters); err != nil {
		return err
	}
	times := r.eight
	if valueType >= typeStream3 {
		times = r.sixteen
	}
	pending := func() error { return r.each(r.sixteen, r.eight, r.oneLength) }
	consumers := func() error {
		return r.each(r.skipString, times, func() error { return r.each(r.sixteen) })
	}
	group := []func() error{r.skipString, func() error { return r.lengths(groupCounters) }, pending, consumers}
	if valueType >= typeStream5 {
		group = append(group, func() error { return r.each(r.sixteen) })
	}
	if err := r.each(group...); err != nil || valueType < typeStream4 {
		return err
	}
	return r.producers()
}

// producers reads those that a stream remembers, each with its latest entries, between how many are remembered and what was counted.
func (r *reader) producers() error {
	if err := r.lengths(2); err != nil {
		return err
	}
	entries := func() error { return r.each(r.skipString, r.oneLength, r.oneLength) }
	if err := r.each(r.skipString, entries); err != nil {
		return err
	}
	return r.lengths(2)
}

// Parts of what a module wrote.
const (
	moduleEnd    = 0
	moduleInt    = 1
	moduleUint   = 2
	moduleFloat  = 3
	moduleDouble = 4
	moduleString = 5
)

// module reads the value of a module's type: who wrote it and its parts, each with its kind before it.
func (r *reader) module() error {
	if err := r.lengths(1); err != nil {
		return err
	}
	for {
		kind, err := r.length()
		if err != nil {
			return err
		}
		switch kind {
		case moduleEnd:
			return nil
		case moduleInt, moduleUint:
			err = r.lengths(1)
		case moduleFloat:
			err = r.skip(4)
		case moduleDouble:
			err = r.skip(8)
		case moduleString:
			err = r.skipString()
		default:
			err = fmt.Errorf("a module's value has a part of the kind %d: it is damaged", kind)
		}
		if err != nil {
			return err
		}
	}
}

// moduleAux reads what a module wrote beside the keys: when it wants to read it is its first part.
func (r *reader) moduleAux() error { return r.module() }
