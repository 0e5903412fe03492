package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"rota/jobs"
)

// Request is what an http job sends, by the rules of [jobs.HTTP].
type Request struct {
	URL     Secret // its user, password, path and query may all be secret
	Method  string
	Headers map[string]string
	Body    string
	Expect  []int // status codes that mean success; none: 200 to 299
}

// request is the table of a job's request. Its keys get their defaults with the table: without one
// there is no request at all.
func request(name string, dst **Request) key {
	r := new(Request)
	keys := requestKeys(r)
	k := none(table(name, keys...))
	plain := k.set
	k.set = func(at place, v any) bool {
		setDefaults(keys)
		fine := plain(at, v)
		values, ok := v.(map[string]any)
		if !ok {
			return false
		}
		if _, given := values["url"]; !given && !at.src.torn && !misspelt("url", values, keys) {
			at.fault(problem{"names no url", `set url = "https://HOST/PATH"`})
			fine = false
		}
		*dst = r
		return fine
	}
	return k
}

// requestKeys are the keys of a request, stored to r. Nothing here is checked in a way that would
// show a value, but for methods and codes.
func requestKeys(r *Request) []key {
	var url string
	// It is a secret from here on: the text is not kept anywhere else.
	address := none(text("url", "", &url, ofJobs(jobs.CheckURL)))
	plain := address.set
	address.set = func(at place, v any) bool {
		fine := plain(at, v)
		r.URL = NewSecret(url)
		return fine
	}
	headers := pairs("headers", &r.Headers, func(name, value string) problem {
		return ofJobs(func(value string) error { return jobs.CheckHeader(name, value) })(value)
	})
	return []key{
		address,
		text("method", "POST", &r.Method, checkMethod),
		swallowsNothing(onceInAnyCase(headers), "a header", func() []key {
			return append(requestKeys(new(Request)), jobKeys(new(Job))...)
		}),
		text("body", "", &r.Body),
		// 1xx are never the answer.
		none(codes("expect", nil, 200, 599, &r.Expect)),
	}
}

// ofJobs makes a check of one by which package jobs goes itself, so that what is taken here is not
// refused when it runs. Its errors end in what to do, where that is known.
func ofJobs(wrong func(string) error) check {
	return func(s string) problem {
		err := wrong(s)
		if err == nil {
			return problem{}
		}
		text, hint, _ := strings.Cut(err.Error(), "; ")
		return problem{text, hint}
	}
}

func checkMethod(s string) problem {
	pr := ofJobs(jobs.CheckMethod)(s)
	if pr.text == "" {
		return pr
	}
	pr.text = show(s) + " " + pr.text
	// No guess beyond the case: a method of one's own is as good as a registered one.
	if upper := strings.ToUpper(s); jobs.CheckMethod(upper) == nil {
		pr.hint = "write " + show(upper)
	}
	return pr
}

// onceInAnyCase refuses a header that is there twice: to HTTP, upper and lower case are the same
// (RFC 9110, 5.1), and which of the two was sent would be chance.
func onceInAnyCase(k key) key {
	plain := k.set
	k.set = func(at place, v any) bool {
		fine := plain(at, v)
		table, ok := v.(map[string]any)
		if !ok {
			return false
		}
		first := map[string]string{}
		for _, name := range slices.Sorted(maps.Keys(table)) {
			lower := strings.ToLower(name)
			if other, twice := first[lower]; twice {
				at.in(name).faultf("is the same header as %s", other)
				fine = false
				continue
			}
			first[lower] = name
		}
		return fine
	}
	return k
}

// finishRequest warns of keys of the job that say nothing of a request, unless they are left at their
// defaults. Those of [defaults] are for other jobs too.
func (l *loader) finishRequest(f found, j *Job, keys []key) {
	if j.Request == nil {
		return
	}
	ofCommands := []string{
		"env", "env_file", "dir", "user", "group", "umask", "nice", "limits", "kill_grace", "success_codes",
	}
	for _, k := range keys {
		v, own := f.values[k.name]
		if !own || !slices.Contains(ofCommands, k.name) || reflect.DeepEqual(v, k.def) {
			continue
		}
		pr := problem{text: "has no effect on an http job"}
		if k.name == "success_codes" {
			pr.hint = "the status codes that mean success are http.expect"
		}
		f.at.in(k.name).warn(pr)
	}
	// A program ends with its host; an answer need not.
	if j.Timeout == 0 {
		f.at.in("http").warn(problem{"a server that never finishes its answer holds the lock for ever", "set timeout"})
	}
}

// finishRetries holds the two waits against each other: those of a job, or those of [defaults].
func (l *loader) finishRetries(f found, j *Job) {
	if j.RetryBackoff > j.RetryMax && !f.at.src.torn && !l.main.torn {
		at := place{rep: f.at.rep, src: l.main, path: []string{"defaults", "retry_backoff"}}
		faulty := false // one of them is not what the user meant, and that was said
		for _, name := range []string{"retry_max", "retry_backoff"} {
			if _, own := f.values[name]; own {
				at = f.at.in(name)
			}
			faulty = faulty || l.blames(f, name)
		}
		if !faulty {
			at.faultf("retry_backoff, %s, is longer than retry_max, %s", short(j.RetryBackoff), short(j.RetryMax))
		}
	}
}

// handler is what runs the job: its command or its request, as often as its retries say.
func (j *Job) handler(command jobs.Command) jobs.Handler {
	var h jobs.Handler = command
	if r := j.Request; r != nil {
		h = jobs.HTTP{
			URL: r.URL.Reveal(), Method: r.Method, Headers: maps.Clone(r.Headers), Body: r.Body,
			Expect: slices.Clone(r.Expect),
		}
	}
	if j.Retries == 0 {
		return h
	}
	return jobs.Retry{Handler: h, Retries: j.Retries, Backoff: j.RetryBackoff, Max: j.RetryMax}
}
