"""Downloads models from the hub into the Hugging Face cache, which all tools on this machine share.

    client             the hub's address, what is sent to it, and the retries
    account            the account that a token belongs to
    repo_names         checks the names of repositories, revisions and files that come from outside
    repo_files         the files of a revision, with sizes and digests
    file_filter        selects the files to download: weights in safetensors, JSON, tokenizer, chat template
    repo_cache         the folders of blobs, snapshots and unfinished downloads
    download           downloads a whole model, as a stream of events
    download_events    those events
    download_plan      the stored list of the files of a download
    download_progress  counts bytes and measures the speed
    workers            downloads several files at once
    file_transfer      downloads and resumes one file
    digest             the digest of a file
    disk_space         checks the free disk space before a download
    cleanup            deletes unfinished downloads
    failures           turns errors into one line that says what to do

This package imports nothing, so that a lightweight process can import `models.hub.download_events`.
"""
