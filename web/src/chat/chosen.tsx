import { useEffect, useState } from 'preact/hooks';
import { bytes } from '../parts/ago.tsx';
import { Icon } from '../parts/icon.tsx';
import { zoom } from '../parts/zoom.tsx';
import type { Draft } from './draft.ts';

/** The files that go with the next message: images as they are, others by name. */
export function Chosen({ draft }: { draft: Draft }) {
  const files = draft.files.value;
  if (files.length === 0) return null;
  return (
    <ul class="chosen" aria-label="Attached files">
      {files.map((file) => (
        <li key={`${file.name}${file.size}${file.lastModified}`}>
          {file.type.startsWith('image/') ? <Preview file={file} /> : <Icon name="artifact" />}
          <span class="chosen-name">{file.name}</span>
          <small>{bytes(file.size)}</small>
          <button type="button" class="plain" aria-label={`Remove ${file.name}`} onClick={() => draft.remove(file)}>
            <Icon name="close" />
          </button>
        </li>
      ))}
    </ul>
  );
}

function Preview({ file }: { file: File }) {
  const [url, setUrl] = useState('');
  useEffect(() => {
    const made = URL.createObjectURL(file);
    setUrl(made);
    return () => URL.revokeObjectURL(made);
  }, [file]);
  return (
    <button
      type="button"
      class="picture"
      title="Show it large"
      aria-label={`Show ${file.name} large`}
      onClick={() => zoom({ name: file.name, url })}
    >
      {url && <img src={url} alt="" />}
    </button>
  );
}
