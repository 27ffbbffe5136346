import type { ComponentChildren } from 'preact';
import { useId, useRef } from 'preact/hooks';

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };

interface FieldProps {
  name: string;
  schema: JsonObject;
  value: Json | undefined;
  isRequired: boolean;
  onChange: (value: Json | undefined) => void;
}

/** A field for every property of a JSON Schema of an object. What has no field of its own is written as JSON. */
export function SchemaForm(props: { schema: JsonObject; value: JsonObject; onChange: (value: JsonObject) => void }) {
  const { schema, value, onChange } = props;
  const properties = object(schema.properties);
  const required = Array.isArray(schema.required) ? schema.required : [];
  const set = (name: string, given: Json | undefined) => {
    const { [name]: _, ...others } = value;
    onChange(given === undefined ? others : { ...others, [name]: given });
  };
  return (
    <div class="fields">
      {Object.entries(properties).map(([name, one]) => (
        <SchemaField
          key={name}
          name={name}
          schema={plain(object(one))}
          value={value[name]}
          isRequired={required.includes(name)}
          onChange={(given) => set(name, given)}
        />
      ))}
      {Object.keys(properties).length === 0 && <p class="muted">Nothing has to be filled in.</p>}
    </div>
  );
}

/** The values with which a form of this schema begins. */
export function defaultsOf(schema: JsonObject): JsonObject {
  const found: JsonObject = {};
  for (const [name, one] of Object.entries(object(schema.properties))) {
    const { default: given, type } = plain(object(one));
    if (given !== undefined && given !== null) found[name] = given;
    else if (type === 'boolean' && Array.isArray(schema.required) && schema.required.includes(name))
      found[name] = false;
  }
  return found;
}

/** The required fields that are still empty. */
export function missingIn(schema: JsonObject, value: JsonObject): string[] {
  const required = Array.isArray(schema.required) ? schema.required.map(String) : [];
  return required.filter((name) => value[name] === undefined || value[name] === '');
}

function SchemaField(props: FieldProps) {
  const { schema, name, value, onChange } = props;
  const { type } = schema;
  if (Array.isArray(schema.enum)) return <Choice {...props} options={schema.enum} />;
  if (type === 'boolean') {
    return (
      <label class="check">
        <input type="checkbox" checked={value === true} onChange={(event) => onChange(event.currentTarget.checked)} />
        <span>
          {titleOf(name, schema)}
          {text(schema.description) && <small>{text(schema.description)}</small>}
        </span>
      </label>
    );
  }
  if (type === 'object' && Object.keys(object(schema.properties)).length > 0) {
    return (
      <fieldset>
        <legend>{titleOf(name, schema)}</legend>
        <SchemaForm schema={schema} value={object(value)} onChange={onChange} />
      </fieldset>
    );
  }
  if (type === 'string') return <TextField {...props} />;
  if (type === 'number' || type === 'integer') return <NumberField {...props} />;
  return <JsonField {...props} />;
}

function Labelled(props: FieldProps & { children: (id: string, hint: string | undefined) => ComponentChildren }) {
  const { name, schema, isRequired, children } = props;
  const id = useId();
  const hint = text(schema.description);
  return (
    <div class="field">
      <label for={id}>
        {titleOf(name, schema)}
        {!isRequired && <small>optional</small>}
      </label>
      {children(id, hint ? `${id}-hint` : undefined)}
      {hint && <small id={`${id}-hint`}>{hint}</small>}
    </div>
  );
}

const LONG = /content|text|body|message|command|query|instructions|description|code/;

function TextField(props: FieldProps) {
  const { schema, name, value, isRequired, onChange } = props;
  const given = text(value);
  const isLong = !schema.format && Number(schema.maxLength ?? 1000) > 200 && (LONG.test(name) || given.includes('\n'));
  const set = (entered: string) => onChange(entered === '' && !isRequired ? undefined : entered);

  return (
    <Labelled {...props}>
      {(id, hint) =>
        isLong ? (
          <textarea
            id={id}
            rows={Math.min(12, given.split('\n').length + 1)}
            value={given}
            aria-describedby={hint}
            onInput={(event) => set(event.currentTarget.value)}
          />
        ) : (
          <input
            id={id}
            type="text"
            value={given}
            aria-describedby={hint}
            onInput={(event) => set(event.currentTarget.value)}
          />
        )
      }
    </Labelled>
  );
}

function NumberField(props: FieldProps) {
  const { schema, value, onChange } = props;
  const limits = { min: bound(schema.minimum), max: bound(schema.maximum) };
  const field = useRef<HTMLInputElement>(null);
  // A text that means this number stays as it is typed: `1.0` is 1, and would be written anew on the way to 1.05.
  const isTyped = field.current?.valueAsNumber === value;
  return (
    <Labelled {...props}>
      {(id, hint) => (
        <input
          id={id}
          ref={field}
          type="number"
          step={schema.type === 'integer' ? 1 : 'any'}
          {...limits}
          value={isTyped ? field.current?.value : typeof value === 'number' ? value : ''}
          aria-describedby={hint}
          onInput={(event) => {
            const entered = event.currentTarget.valueAsNumber;
            onChange(Number.isNaN(entered) ? undefined : entered);
          }}
        />
      )}
    </Labelled>
  );
}

function Choice(props: FieldProps & { options: Json[] }) {
  const { options, value, isRequired, onChange } = props;
  return (
    <Labelled {...props}>
      {(id, hint) => (
        <select
          id={id}
          aria-describedby={hint}
          value={value === undefined ? -1 : options.indexOf(value)}
          onChange={(event) => onChange(options[Number(event.currentTarget.value)])}
        >
          {(!isRequired || value === undefined) && <option value={-1}>–</option>}
          {options.map((one, index) => (
            <option key={String(one)} value={index}>
              {String(one)}
            </option>
          ))}
        </select>
      )}
    </Labelled>
  );
}

/** For what has no field of its own. A text that is not JSON yet is kept in the field and marked. */
function JsonField(props: FieldProps) {
  const { value, onChange } = props;
  const read = (field: HTMLTextAreaElement) => {
    field.setCustomValidity('');
    try {
      onChange(field.value.trim() ? (JSON.parse(field.value) as Json) : undefined);
    } catch (error) {
      field.setCustomValidity(`This is not JSON: ${(error as Error).message}`);
    }
    field.reportValidity();
  };
  return (
    <Labelled {...props}>
      {(id, hint) => (
        <textarea
          id={id}
          class="mono"
          rows={3}
          placeholder="JSON"
          aria-describedby={hint}
          defaultValue={value === undefined ? '' : JSON.stringify(value, null, 2)}
          onChange={(event) => read(event.currentTarget)}
        />
      )}
    </Labelled>
  );
}

/** The schema without the choice of null: an optional field is left out instead. */
function plain(schema: JsonObject): JsonObject {
  const choices = Array.isArray(schema.anyOf) ? schema.anyOf.map(object).filter(({ type }) => type !== 'null') : [];
  if (choices.length === 1 && choices[0]) return { ...schema, ...choices[0] };
  const kinds = Array.isArray(schema.type) ? schema.type.filter((one) => one !== 'null') : [];
  return kinds.length === 1 && kinds[0] ? { ...schema, type: kinds[0] } : schema;
}

function titleOf(name: string, schema: JsonObject): string {
  return text(schema.title) || name;
}

function object(value: Json | undefined): JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : {};
}

function text(value: Json | undefined): string {
  return typeof value === 'string' ? value : '';
}

function bound(value: Json | undefined): number | undefined {
  return typeof value === 'number' ? value : undefined;
}
