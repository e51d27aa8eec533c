package sqlkit

import (
	"fmt"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
	"github.com/fencelock/fencelock/internal/option"
)

// Only reads the options of what is no Locker, such as a fence: those in fields,
// and the backend's own.
func Only(backend, what string, opts []fencelock.Option, fields option.Field, own ...any) (option.Set, error) {
	set, err := lease.Settings(backend, opts, own...)
	if err != nil {
		return set, err
	}
	for f, name := range map[option.Field]string{
		option.TTL: "TTL", option.Wait: "Wait", option.Backoff: "Backoff", option.Passes: "Passes",
		option.Observe: "Observe", option.Prefix: "Prefix",
	} {
		if set.Given(f) && fields&f == 0 {
			return set, fmt.Errorf("fencelock: %s.%s: option %s has no meaning here", backend, what, name)
		}
	}
	return set, nil
}
